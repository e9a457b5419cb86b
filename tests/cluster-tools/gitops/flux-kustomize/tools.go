//go:build tools

// Package tools keeps the controller in go.mod; nothing else imports it.
package tools

import _ "github.com/fluxcd/kustomize-controller"
