package osb

// The headers that the specification names, spelled as net/http keeps them, so that
// a look-up does not have to spell them anew. HTTP does not mind the case; in texts
// for people it is VersionName.
const (
	VersionHeader             = "X-Broker-Api-Version"
	OriginatingIdentityHeader = "X-Broker-Api-Originating-Identity"
	RequestIdentityHeader     = "X-Broker-Api-Request-Identity"
	APIInfoLocationHeader     = "X-Api-Info-Location"

	VersionName = "X-Broker-API-Version"
)
