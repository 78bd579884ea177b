"""The admin API's questions about requests: what can be asked, what is answered, and its OpenAPI document."""
