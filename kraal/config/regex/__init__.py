"""Translation of Java regular expressions to Python's `re`. Source: java.util.regex.Pattern (Java 17)."""
