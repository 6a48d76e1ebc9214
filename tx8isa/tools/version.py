"""The version of tx8. The package's metadata takes it from here, because reading metadata would slow the
tools down."""

VERSION = "0.8.0"
