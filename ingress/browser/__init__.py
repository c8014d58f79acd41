"""What all pages for browsers share, whoever they are for: they differ in their declaration, never in their guard."""
