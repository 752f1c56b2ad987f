"""The terminal views: one module for each subject, printed in the width and the colours that there are."""
