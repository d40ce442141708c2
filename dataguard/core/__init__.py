"""The core types: checks, findings, results, figures and incidents. Standard library only."""
