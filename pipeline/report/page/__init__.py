"""The report and the survey as self-contained pages, drawn without scripts."""
