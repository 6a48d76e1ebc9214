"""What folds or normalizes along an axis."""
