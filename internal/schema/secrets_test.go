package schema

import (
	"strings"
	"testing"
)

// Parameters may hold secrets, and errors reach logs and other people's screens.
func TestNoValueReachesAnError(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	long := strings.Repeat("n", 60) + secret
	for name, tt := range map[string]struct{ schema, parameters string }{
		"type":       {`{"properties":{"a":{"type":"object"}}}`, `{"a":"hunter2"}`},
		"enum":       {`{"properties":{"a":{"enum":["x",{"y":1}]}}}`, `{"a":"hunter2"}`},
		"const":      {`{` + draft6 + `,"properties":{"a":{"const":{"y":1}}}}`, `{"a":{"y":"hunter2"}}`},
		"pattern":    {`{"properties":{"a":{"pattern":"^x"}}}`, `{"a":"hunter2"}`},
		"length":     {`{"properties":{"a":{"maxLength":1}}}`, `{"a":"hunter2"}`},
		"format":     {`{"properties":{"a":{"format":"email","maxLength":1}}}`, `{"a":"hunter2"}`},
		"unique":     {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":["hunter2","hunter2"]}`},
		"any":        {`{"properties":{"a":{"anyOf":[{"pattern":"^x"},{"enum":["y"]}]}}}`, `{"a":"hunter2"}`},
		"not":        {`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"hunter2"}`},
		"contains":   {`{` + draft6 + `,"properties":{"a":{"contains":{"pattern":"^x"}}}}`, `{"a":["hunter2"]}`},
		"additional": {`{"additionalProperties":false}`, `{"a":"hunter2"}`},
		"numbers":    {`{"properties":{"a":{"maximum":1,"multipleOf":7}}}`, `{"a":7002}`},
		"digits":     {`{"properties":{"a":{"maximum":1}}}`, `{"a":7002e999}`},
		"a name":     {`{"additionalProperties":false}`, `{"` + long + `":1}`},
		"a place":    {`{"additionalProperties":{"type":"string"}}`, `{"` + long + `":1}`},
		"names":      {`{` + draft6 + `,"propertyNames":{"maxLength":3}}`, `{"` + long + `":1}`},
		"syntax":     {`{"type":"object"}`, `{"a":hunter2}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := said(rulesOf(t, tt.schema).Check([]byte(tt.parameters)))
			if got == "" || strings.Contains(got, secret) || strings.Contains(got, "7002") {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestErrorsStayShort(t *testing.T) {
	t.Parallel()
	deep := rulesOf(t, `{"properties":{"v":{"type":"string"}},"additionalProperties":{"$ref":"#"}}`)
	name := strings.Repeat("\x7f", 100)
	got := said(deep.Check([]byte(strings.Repeat(`{"`+name+`":`, 30) + `{"v":1}` + strings.Repeat(`}`, 30))))
	if len(got) > 4500 || !strings.Contains(got, `/…": must be of type string`) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
