package web

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/swjobs/singleworker/singleworker/admin/api"
)

// documentOf is an answer of JSON: a document, or the document of an error.
func documentOf(r *http.Request, text []byte, err error, logger *slog.Logger) answer {
	a := answer{kind: "application/json", text: text}
	if err != nil {
		status, code := statusOf(r, err, logger)
		a.status = status
		a.text, _ = encoded(api.Error{Error: api.ErrorBody{Code: code, Message: err.Error()}}, nil)
	}
	return a
}

// statuses are the HTTP statuses of the codes of package api.
var statuses = map[string]int{
	api.CodeInvalid: http.StatusBadRequest, api.CodeNotFound: http.StatusNotFound, api.CodeConflict: http.StatusConflict,
	api.CodeUnavailable: http.StatusServiceUnavailable, api.CodeDenied: http.StatusBadGateway, api.CodeTimeout: http.StatusGatewayTimeout,
}

// statusOf is the HTTP status of an error, and its code.
func statusOf(r *http.Request, err error, logger *slog.Logger) (status int, code string) {
	switch {
	case errors.Is(err, errElsewhere) || errors.Is(err, errForbidden):
		return http.StatusForbidden, api.CodeDenied
	case errors.Is(err, errChanged):
		return http.StatusPreconditionFailed, api.CodeConflict
	case errors.Is(err, errNoCondition):
		return http.StatusPreconditionRequired, api.CodeInvalid
	case errors.Is(err, errToken):
		return http.StatusUnauthorized, api.CodeDenied
	case errors.Is(err, errTooFast):
		return http.StatusTooManyRequests, api.CodeUnavailable
	}
	if code = api.CodeOf(err); errors.Is(err, errLog) {
		code = api.CodeUnavailable
	}
	status, known := statuses[code]
	if !known {
		status = http.StatusInternalServerError
	}
	if status >= http.StatusInternalServerError && !errors.Is(err, r.Context().Err()) {
		logger.Warn("request failed", "path", r.URL.Path, "error", err)
	}
	return status, code
}
