"""What commands print and stages log: texts of others without control characters."""
