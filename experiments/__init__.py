"""Studies: each folder holds a question, the command that answers it, and what it printed."""
