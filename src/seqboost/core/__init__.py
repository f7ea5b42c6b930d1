"""What every package shares: contexts, offsets, random numbers, threads, kernels, exceptions.

Import from its modules: loading this package loads none of them.
"""
