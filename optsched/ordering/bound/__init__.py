"""Lower bounds on the peak of every order."""
