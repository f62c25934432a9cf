"""What the tests of this folder are written with."""
