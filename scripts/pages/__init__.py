"""What the documentation site is made with, beside the pages in docs/: ``scripts/docs`` builds it."""
