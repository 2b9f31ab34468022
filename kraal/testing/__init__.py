"""The public test harness: start a worker inside a test and talk to its herder."""
