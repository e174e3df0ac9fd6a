"""The tools that can be fetched from: every module of this package that declares a TOOL."""
