"""Peak memory against exposed communication time, on graphs with sharded weights."""
