/* Nothing of it is needed: the name is there for the files that include it. docs/crt.md */
