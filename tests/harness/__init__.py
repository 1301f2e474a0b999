"""The parts of tests/run.py."""
