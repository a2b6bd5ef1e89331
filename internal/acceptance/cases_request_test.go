package acceptance

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
)

func headerCases() []clause {
	return []clause{
		{"AUT-01 a bearer token that nobody agreed on", func(c tenant) {
			c.send("GET", "/v2/catalog", "", header("Authorization", "Bearer abc")).want(c.t, 401)
		}},
		{"AUT-04 the version missing, and one of another time", func(c tenant) {
			c.send("GET", "/v2/catalog", "", header("X-Broker-API-Version", "")).want(c.t, 400)
			c.send("GET", "/v2/catalog", "", header("X-Broker-API-Version", "1.0")).want(c.t, 412)
		}},
		{"AUT-07 AUT-08 originators that are missing or broken stop nothing (Decided 10)", unreadableOriginators},
		{"AUT-09 the request identity comes back and is logged", identityInLog},
		{"AUT-10 header names in lower case", lowerCase},
		{"AUT-12 ERR-02 a 401 is JSON, whatever the client likes", func(c tenant) {
			a := c.send("GET", "/v2/catalog", "", header("Authorization", ""), header("Accept", "text/html")).want(c.t, 401)
			if a.text("description") == "" {
				c.t.Errorf("%s: %s", a.request, a.body)
			}
		}},
		{"AUT-13 ERR-05 an unknown path is 404 in JSON", func(c tenant) { c.send("GET", "/v2/nope", "").says(c.t, 404, "NotFound") }},
		{"CTX-02 CTX-04 PROV-11 contexts of every kind, long and strange", contexts},
	}
}

// lowerCase writes the request itself, because Go's client would change the names.
func lowerCase(c tenant) {
	host := strings.TrimPrefix(c.broker, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	login := base64.StdEncoding.EncodeToString([]byte(c.user + ":" + c.secret))
	_, err = fmt.Fprintf(conn, "GET /v2/catalog HTTP/1.1\r\nhost: %s\r\nx-broker-api-version: 2.17\r\nauthorization: basic %s\r\nconnection: close\r\n\r\n", host, login)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 200 {
		c.t.Errorf("%v %v, want 200", resp, err)
		return
	}
	_ = resp.Body.Close()
}

func parameterCases() []clause {
	return []clause{
		{"PAR-01 PAR-02 PAR-04 absent, null and {} are one (Decided 9)", func(c tenant) {
			for _, first := range []string{"", "null", "{}"} {
				id := c.ready("postgres/small", first)
				for _, again := range []string{"", "null", "{}"} {
					c.put(id, "postgres/small", again, async).bare(c.t, 200)
					c.patch(id, "postgres/small", strings.TrimPrefix(member("parameters", again), ","), async).bare(c.t, 200)
				}
				c.askedFor(0, "update", id, "")
			}
		}},
		{"PAR-03 a number is no string", func(c tenant) {
			const sent = `{"n":3,"s":"3"}`
			id := c.ready("postgres/small", sent)
			if got := string(c.row(id).Parameters); got != sent {
				c.t.Errorf("the backing broker got %s", got)
			}
			c.put(id, "postgres/small", `{"n":"3","s":"3"}`, async).says(c.t, 409, "Conflict")
		}},
		{"PAR-06 PAR-07 empty values survive", func(c tenant) {
			const sent = `{"a":[],"b":{},"c":null,"d":"","note":""}`
			if got := string(c.row(c.ready("postgres/small", sent)).Parameters); got != sent {
				c.t.Errorf("the backing broker got %s", got)
			}
		}},
		{"PAR-09 order does not count", func(c tenant) {
			id := c.ready("postgres/small", `{"a":1,"b":{"c":2,"d":3}}`)
			c.put(id, "postgres/small", `{"b":{"d":3,"c":2},"a":1}`, async).bare(c.t, 200)
		}},
		{"PAR-11 ERR-03 VAL-02 parameters against the schema: 400 that names the place", func(c tenant) {
			c.put(c.id(), "postgres/schema", `{"size":1000}`, async).says(c.t, 400, "BadRequest", "/size")
		}},
	}
}

func validationCases() []clause {
	return []clause{
		{"VAL-02 bodies that cannot be read", unreadableBodies},
		{"VAL-03 a plan that is not there", func(c tenant) {
			c.send("PUT", at(c.id())+"?accepts_incomplete=true", edited(c.createBody("postgres/small", ""), "plan_id", `"nope"`)).says(c.t, 400, "BadRequest")
		}},
		{"VAL-04 VAL-06 an update without a plan keeps it", leftOut},
		{"VAL-05 VAL-07 a plan change where there is none, at once", planStays},
		{"VAL-07 a plan says that it cannot be bound, its offering that it can", notBindable},
		{"VAL-08 an update to the plan that it has", func(c tenant) {
			id := c.one()
			c.patch(id, "postgres/small", `"plan_id":`+quoted(c.plan("postgres/small").plan), async).bare(c.t, 200)
			c.askedFor(0, "update", id, "")
		}},
		{"MNT-02 MNT-06 versions of a create", versionsOfCreate},
		{"MNT-05 a plan without a version has no maintenance_info", func(c tenant) {
			if info := c.planOf("postgres/small").MaintenanceInfo; info != nil {
				c.t.Errorf("maintenance_info %v", info)
			}
		}},
	}
}

func errorCases() []clause {
	return []clause{
		{"ERR-04 no answer is empty", nothingToReport},
		{"ERR-06 an instance that cannot be fetched, as the catalog says", func(c tenant) {
			c.send("GET", at(c.ready("queue/standard", "")), "").says(c.t, 404, "NotFound")
			offerings, _ := c.marketplace()
			if *offerings["queue"].InstancesRetrievable {
				c.t.Error("the catalog says otherwise")
			}
		}},
		{"AGW-02 AGW-05 AGW-06 ids with encoded characters", anyCharacterOnce},
		{"AGW-11 AGW-14 fifty at once, and all are told of one operation", func(c tenant) {
			id := c.id()
			op := sameOperation(c.t, together(50, func(int) answer { return c.put(id, "postgres/async", "", async) }))
			c.succeeds(at(id), op)
			c.askedFor(1, "provision", id, "")
		}},
		{"DDB-09 parameters and bodies that are too large, with the limit", func(c tenant) {
			for size, want := range map[int]cell{300 << 10: {400, "BadRequest"}, 2 << 20: {413, "RequestTooLarge"}} {
				id := c.id()
				c.put(id, "postgres/small", `{"a":"`+strings.Repeat("x", size)+`"}`, async).says(c.t, want.status, want.word, "limit")
				c.poll(at(id), "").want(c.t, 404)
			}
		}},
		{"AGW-04 an operation that is sent back encoded", func(c tenant) {
			c.poll(at(c.one()), "job:123+x=%").want(c.t, 200).has(c.t, "state", `"succeeded"`)
		}},
	}
}

// anyCharacterOnce: decoded once, not twice, on every route.
func anyCharacterOnce(c tenant) {
	for _, id := range []string{"case a/b", "case %25", "case a?x=1", "case a+b"} {
		c.succeeds(at(id), c.put(id, "postgres/small", "", async).want(c.t, 202).operation())
		c.row(id)
		c.poll(at(id), "").want(c.t, 200)
		c.gone(id, "postgres/small")
	}
}
