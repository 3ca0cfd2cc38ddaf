"""Our packer beside MiniMalloc and omnimalloc, in one run."""
