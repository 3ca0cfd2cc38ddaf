"""Reports for people and programs: tables, JSON records, pictures and pages."""
