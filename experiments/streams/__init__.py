"""Memory costs of ops on several streams, with proofs."""
