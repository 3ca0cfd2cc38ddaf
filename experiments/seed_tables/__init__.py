"""Study: the tables of TorchInductor's commit notes, made again on our captures, with proofs."""
