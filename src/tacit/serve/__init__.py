"""`tacit serve`: a released model behind a small read-only HTTP API (extra ``serve``).

`app` has the routes and what every answer has in common, `answers` what is answered, `described`
the OpenAPI document, `page` the page to try it. Nothing that is sent is kept, and nothing is
written.
"""
