"""What a person or a machine reads: tables, JSON records, pictures."""
