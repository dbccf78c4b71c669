"""Errors of the HTTP front in OpenAI's format.

Statuses: 400 and 404 fail again unchanged, 429 and 503 may be retried, 500 means that the engine is
broken.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pipeline_lib.engines.embedded.generation import EngineStoppedError, QueueFullError
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


def unknown_model(name: str, served: Iterable[str], *, param: str) -> ApiError:
    """404 for a model that is not served."""
    message = f"the model {name} does not exist; served are: {', '.join(served)}"
    return ApiError(404, message, param=param, code="model_not_found")


def add_error_handlers(app: FastAPI) -> None:
    """Format every error of the app."""
    for kind in (
        *(ApiError, RequestValidationError, HTTPException, BadInputError),
        *(EngineStoppedError, QueueFullError, Exception),
    ):
        app.add_exception_handler(kind, _respond)


async def _respond(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        error = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    return as_api_error(error).response()


def as_api_error(error: Exception) -> ApiError:
    """The response to an exception: 503 while the server is stopping, which clients may retry; 500 for a bug."""
    match error:
        case ApiError():
            return error
        case RequestValidationError():
            return _bad_body(error.errors()[0])
        case BadInputError():
            return ApiError(400, str(error))
        case QueueFullError():
            return ApiError(429, str(error))
        case EngineStoppedError(failed=failed):
            return ApiError(500 if failed else 503, str(error))
        case _:
            return ApiError(500, f"{type(error).__name__} in the HTTP front")


def _bad_body(first: Mapping[str, Any]) -> ApiError:
    # Without the value: it may be a prompt.
    places = [str(place) for place in first["loc"] if place != "body"]
    where = ".".join(places)
    reason = str(first["msg"]).removeprefix("Value error, ")
    message = f"{where}: {reason}" if where else reason
    return ApiError(400, message, param=places[0] if places else None)
