"""What the packers reach, and how long they take."""
