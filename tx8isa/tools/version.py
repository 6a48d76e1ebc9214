"""The version of tx8. The package's metadata takes it from here: reading metadata slows the tools down."""

VERSION = "0.8.0"
