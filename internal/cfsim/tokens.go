package cfsim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// How long tokens are good for.
const (
	accessValidity  = 20 * time.Minute
	refreshValidity = 30 * 24 * time.Hour
)

// tokenKind keeps a refresh token from passing as an access token.
type tokenKind string

const (
	accessToken  tokenKind = "access"
	refreshToken tokenKind = "refresh"
)

// tokenIssuer signs tokens instead of keeping them, so that any number of
// logins costs no memory. Raising a generation makes all
// of its kind invalid.
type tokenIssuer struct {
	now     func() time.Time
	random  *randomness
	key     []byte
	access  atomic.Int64 // generation of access tokens
	refresh atomic.Int64 // and of refresh tokens
}

func (t *tokenIssuer) generation(kind tokenKind) *atomic.Int64 {
	if kind == refreshToken {
		return &t.refresh
	}
	return &t.access
}

type claims struct {
	ID         string    `json:"jti"`
	Subject    string    `json:"sub"`
	Client     string    `json:"client_id"`
	User       string    `json:"user_name,omitempty"`
	UserID     string    `json:"user_id,omitempty"`
	Email      string    `json:"email,omitempty"`
	Origin     string    `json:"origin,omitempty"`
	Grant      string    `json:"grant_type"`
	Authorized string    `json:"azp"`
	Issued     int64     `json:"iat"`
	Zone       string    `json:"zid"`
	Audience   []string  `json:"aud"`
	Scope      []string  `json:"scope"`
	Kind       tokenKind `json:"kind"`
	Generation int64     `json:"generation"`
	Expires    int64     `json:"exp"`
}

func newTokenIssuer(now func() time.Time, random *randomness) *tokenIssuer {
	return &tokenIssuer{now: now, random: random, key: random.bytes(32)}
}

// issue returns a signed token and its id.
func (t *tokenIssuer) issue(who login, kind tokenKind, validity time.Duration) (token, id string) {
	c := claims{
		ID: t.random.guid(), Subject: who.subject, Client: who.client, User: who.user,
		Audience: audience(who), Scope: who.scope, Kind: kind,
		Generation: t.generation(kind).Load(), Expires: t.now().Add(validity).Unix(),
		Grant: "client_credentials", Authorized: who.client, Issued: t.now().Unix(), Zone: "uaa",
	}
	if who.user != "" {
		c.UserID, c.Email, c.Origin, c.Grant = who.subject, who.user, origin, "password"
	}
	payload, _ := json.Marshal(c) // strings and numbers only
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(payload)
	return signed + "." + encode(t.sign(signed)), c.ID
}

func (t *tokenIssuer) sign(text string) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

var errToken = errors.New("token is not valid")

func (t *tokenIssuer) parse(token string, kind tokenKind) (claims, error) {
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 {
		return claims{}, errToken
	}
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil || !hmac.Equal(signature, t.sign(token[:dot])) {
		return claims{}, errToken
	}
	_, encoded, _ := strings.Cut(token[:dot], ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return claims{}, errToken
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return claims{}, errToken
	}
	if c.Kind != kind || c.Generation != t.generation(kind).Load() || c.Expires <= t.now().Unix() {
		return claims{}, errToken
	}
	return c, nil
}

// subject returns whom a token speaks for, or an error when it is not one of
// ours, of another kind, expired, withdrawn, or not meant for the Cloud
// Controller.
func (t *tokenIssuer) subject(token string, kind tokenKind) (string, error) {
	c, err := t.parse(token, kind)
	if err == nil && !slices.Contains(c.Audience, "cloud_controller") {
		err = errToken
	}
	return c.Subject, err
}

// expire makes every token of these kinds that was handed out so far invalid.
func (t *tokenIssuer) expire(kinds ...tokenKind) {
	for _, kind := range kinds {
		t.generation(kind).Add(1)
	}
}

// audience are the components that a token is meant for: those that its scopes
// name, and the client itself.
func audience(who login) []string {
	var names []string
	for _, scope := range append(slices.Clone(who.scope), who.client) {
		name := scope
		if dot := strings.LastIndexByte(scope, '.'); dot >= 0 {
			name = scope[:dot]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
