package canon

import (
	"strconv"
	"strings"
)

// number reads a number; when the parser keeps, into its normal form.
func (p *parser) number() (node, error) {
	var d decimal
	d.negative = p.accept('-')
	d.whole = p.digits()
	if d.whole == "" || len(d.whole) > 1 && d.whole[0] == '0' {
		return node{}, p.syntax("a number needs a digit before its point, and no 0 before other digits")
	}
	if p.accept('.') {
		if d.fraction = p.digits(); d.fraction == "" {
			return node{}, p.syntax("expected a digit after the point of a number")
		}
	}
	if p.accept('e') || p.accept('E') {
		d.power.negative = p.accept('-')
		if !d.power.negative {
			p.accept('+')
		}
		if d.power.digits = p.digits(); d.power.digits == "" {
			return node{}, p.syntax("expected a digit in the exponent of a number")
		}
	}
	n := node{kind: plainNode}
	if p.keep {
		n.text = d.normal()
	}
	return n, nil
}

// digits reads any number of digits.
func (p *parser) digits() string {
	start := p.pos
	for p.pos < len(p.text) && isDigit(p.text[p.pos]) {
		p.pos++
	}
	return p.text[start:p.pos]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// decimal is a number as it was written: (-)whole.fraction times ten to power.
type decimal struct {
	negative        bool
	whole, fraction string
	power           integer
}

// normal returns the one way to write the number: digits that neither begin nor end with 0, and a power of ten unless
// it is zero.
func (d decimal) normal() string {
	written := d.whole + d.fraction
	digits := strings.TrimRight(written, "0")
	power := d.power.plus(int64(len(written) - len(digits) - len(d.fraction)))
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0"
	}
	if d.negative {
		digits = "-" + digits
	}
	if power == "0" {
		return digits
	}
	return digits + "e" + power
}

// integer is a whole number of any length, decimal because an exponent may be a million digits long and a binary number
// would take far more than a million steps to convert.
type integer struct {
	negative bool
	digits   string
}

// base is the weight of the last 18 digits: two of them add up within an int64.
const (
	base       = 1_000_000_000_000_000_000
	baseDigits = 18
)

// plus returns the decimal text of the integer plus n, for n of at most 17 digits (it counts bytes of the text). Only
// the last 18 digits are reckoned with; the rest takes at most one carry.
func (i integer) plus(n int64) string {
	digits := strings.TrimLeft(i.digits, "0")
	if len(digits) <= baseDigits {
		small, _ := strconv.ParseInt("0"+digits, 10, 64) // up to 18 digits always fit
		if i.negative {
			small = -small
		}
		return strconv.FormatInt(small+n, 10)
	}
	sign := ""
	if i.negative {
		sign, n = "-", -n
	}
	head, last := digits[:len(digits)-baseDigits], digits[len(digits)-baseDigits:]
	tail, _ := strconv.ParseInt(last, 10, 64)
	switch tail += n; {
	case tail >= base:
		head, tail = increment(head), tail-base
	case tail < 0:
		head, tail = decrement(head), tail+base
	}
	padded := strconv.FormatInt(base+tail, 10)[1:]
	return sign + strings.TrimLeft(head+padded, "0")
}

// increment adds one to a number of digits.
func increment(digits string) string {
	nines := len(digits) - len(strings.TrimRight(digits, "9"))
	b := []byte("0" + digits)
	b[len(digits)-nines]++
	for i := len(b) - nines; i < len(b); i++ {
		b[i] = '0'
	}
	return string(b)
}

// decrement takes one from a number of digits that is not zero.
func decrement(digits string) string {
	zeros := len(digits) - len(strings.TrimRight(digits, "0"))
	b := []byte(digits)
	b[len(b)-zeros-1]--
	for i := len(b) - zeros; i < len(b); i++ {
		b[i] = '9'
	}
	return string(b)
}
