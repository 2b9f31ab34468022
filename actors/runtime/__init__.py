"""Runtime of the actors: mailboxes, threads and the clock."""
