"""Java's regular expressions in the syntax of Python's `re`. Source: java.util.regex.Pattern (Java 17)."""
