"""Errors of the HTTP front in OpenAI's format.

Statuses: 400 and 404 fail again unchanged, 429 and 503 may be retried, 500 means that the engine is
broken.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pipeline_lib.errors import BadInputError

_TYPES = {404: "not_found_error", 429: "rate_limit_error"}
_RETRY_AFTER_S = 1


class ApiError(Exception):
    """An error response."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """The JSON object of a response, or of an event within a stream."""
        kind = _TYPES.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        fields = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": fields}

    def response(self) -> JSONResponse:
        """The response."""
        again = {"Retry-After": str(_RETRY_AFTER_S)} if self.status in {429, 503} else None
        return JSONResponse(self.body(), status_code=self.status, headers=again)


def add_error_handlers(app: FastAPI) -> None:
    """Format every error of the app."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _bad_body)
    app.add_exception_handler(HTTPException, _no_such_route)
    app.add_exception_handler(BadInputError, _bad_input)
    app.add_exception_handler(Exception, _bug)


async def _api_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return error.response()


async def _bad_body(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first: Mapping[str, Any] = error.errors()[0]
    # Without the value: it may be a prompt.
    places = [str(place) for place in first["loc"] if place != "body"]
    where = ".".join(places)
    reason = str(first["msg"]).removeprefix("Value error, ")
    message = f"{where}: {reason}" if where else reason
    return ApiError(400, message, param=places[0] if places else None).response()


async def _no_such_route(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return ApiError(error.status_code, message).response()


async def _bad_input(_request: Request, error: Exception) -> JSONResponse:
    return ApiError(400, str(error)).response()


async def _bug(_request: Request, error: Exception) -> JSONResponse:
    return ApiError(500, f"{type(error).__name__} in the HTTP front").response()
