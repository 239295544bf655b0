"""From the record to figures: no sensors, no framework, arrays in and figures out."""
