"""The pages of the documentation, held against the program: what CONTRIBUTING.md says under «Write documentation»."""
