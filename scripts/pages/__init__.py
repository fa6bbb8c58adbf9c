"""Makes the parts of the documentation site that are not pages in docs/: ``scripts/docs`` builds the site."""
