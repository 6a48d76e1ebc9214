"""What a run did and how long it took: ``--stats``."""
