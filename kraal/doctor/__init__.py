"""`kraal doctor`: checks what a worker needs, and says what to do about each problem. Changes nothing."""
