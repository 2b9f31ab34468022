"""Protobuf: .proto texts, Connect's schemas beside them, and values both ways."""
