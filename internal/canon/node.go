package canon

type kind uint8

const (
	plainNode  kind = iota // null, true, false or a number: text is the form
	stringNode             // text is what the string means
	arrayNode
	objectNode // children are sorted by key
)

// node is a value that has been read.
type node struct {
	kind     kind
	key      string // of a member of an object
	text     string
	children []node
}

// appendTo appends the canonical form to dst.
func (n node) appendTo(dst []byte) []byte {
	switch n.kind {
	case plainNode:
		dst = append(dst, n.text...)
	case stringNode:
		dst = appendQuoted(dst, n.text)
	case arrayNode:
		dst = n.appendChildren(dst, '[', ']')
	case objectNode:
		dst = n.appendChildren(dst, '{', '}')
	}
	return dst
}

func (n node) appendChildren(dst []byte, opening, closing byte) []byte {
	dst = append(dst, opening)
	for i, child := range n.children {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.kind == objectNode {
			dst = append(appendQuoted(dst, child.key), ':')
		}
		dst = child.appendTo(dst)
	}
	return append(dst, closing)
}
