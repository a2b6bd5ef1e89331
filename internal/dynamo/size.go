package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MaxRecordBytes is what one item may weigh, names of attributes included.
const MaxRecordBytes = 400 << 10

// size is what DynamoDB counts for the item, or a few bytes more: it does not say how
// long a number is, only how long it may be.
func (it item) size() int {
	n := 0
	for name, value := range it {
		n += len(name)
		switch v := value.(type) {
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += len(v.Value)/2 + 3 // two digits a byte, and exponent, sign and an odd half
		}
	}
	return n
}
