"""The packing engine on MiniMalloc's instances and on plans of real graphs."""
