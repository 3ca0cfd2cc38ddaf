"""Agreement of brute force, CP-SAT and the MILP; and how far the joint model reaches."""
