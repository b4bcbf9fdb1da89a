"""Where what stands in the arrays of the packet level.

Things that are read and written together lie together in a row of one cache line or less: an event
touches a packet, a lane and a link somewhere in memory, and each costs one miss instead of one for
each of its numbers.
"""

#: A time that does not come.
NEVER = 2**62

# -- slots: packets and wake-ups of links; int32 rows, int64 times

#: What follows in the list that the slot is in.
NEXT = 0
#: The link that a packet came by, or that wakes up.
LINK = 1
#: The lane that it came on.
LANE = 2
#: Where a routed packet goes on: link and lane.
OUT = 3
OUT_LANE = 4
#: Wire bytes.
BYTES = 5
#: The message: its operation.
OP = 6
#: How it finds its way: a LID, a place in the source routes, or an endpoint; see `packet_route`.
WAY = 7
#: Number in its connection, and of all packets.
SEQUENCE = 8
SERIAL = 9
#: Service level, marks.
LEVEL = 10
MARKS = 11
#: Where it makes for first: an intermediate or -1. Free for policies from here on.
VIA = 12
POLICY_A = 13
POLICY_B = 14
POLICY_C = 15
SLOT_WIDTH = 16

#: `LANE` of a slot that wakes a link up; `packet_congestion` has lower ones.
WAKES = -1

# -- notes of credits on their way back: int64 rows ------------------------------------------------

#: When they are with the sender, how many, and the next note of the lane.
NOTE_TIME = 0
NOTE_COUNT = 1
NOTE_AFTER = 2
NOTE_WIDTH = 4

# -- links that never change: int32 rows -----------------------------------------------------------

#: Row at the far end, -1 for an adapter, and number of the port there.
HEAD_ROW = 0
HEAD_PORT = 1
#: Row at the near end, -1 for an adapter, and number of the port there.
TAIL_ROW = 2
TAIL_PORT = 3
#: Which of the spans it has: links of one rate and latency share theirs.
SPAN = 4
#: First queue at the far end, and queues of each lane there.
QUEUE = 5
QUEUES = 6
LINK_WIDTH = 8

# -- spans: int64 rows -----------------------------------------------------------------------------

#: Latency of the cable, and of a credit on its way back over it.
LATENCY = 0
CREDIT_LATENCY = 1
#: From the first byte's leaving to the packet's being routed at the far end.
ARRIVAL = 2
#: Duration of a whole packet of the largest size.
DURATION = 3
SPAN_WIDTH = 4

# -- links as they are: int64 rows -----------------------------------------------------------------

#: When it is free, when it wakes up, until when memory behind it is busy.
FREE_AT = 0
WAKE_AT = 1
MEMORY_FREE = 2
#: One bit for each incoming lane that has a packet for it, or outgoing lane of an adapter.
ASKING = 3
STATE_WIDTH = 4

# -- lanes of links as they are: int32 rows

#: Credits that the sender has, and the list of those on their way back.
CREDITS = 0
BACK_HEAD = 1
BACK_TAIL = 2
#: Whether somebody waits for credits that nobody has sent back yet.
SHORT = 3
#: What was taken last: input port number and lane.
TURN = 4
#: Credits of the packets that are routed to it and not granted.
ROUTED = 5
#: Line of the queue pairs of an adapter.
LINE_HEAD = 6
LINE_TAIL = 7
LANE_WIDTH = 8

# -- lane arbitration of links as it is: int32 rows

LAST_LANE = 0
HIGH_AT = 1
HIGH_LEFT = 2
LOW_AT = 3
LOW_LEFT = 4
LIMIT_LEFT = 5
ARBITER_WIDTH = 6

# -- what lanes of links have carried: int64 rows

PACKETS = 0
WIRE_BYTES = 1
WAIT = 2
#: How long packets took to leave.
BUSY = 3
COUNT_WIDTH = 4

# -- places of `number`, after those of programs

FREE_SLOTS = 8
SERIALS = 9
HOPS = 10
EVENTS = 11
DIRTY = 12
GRANTING = 13
BUCKET = 14
ACTIVE = 15
FAR = 16
WAITING_EVENTS = 17
NOW = 19
IN_FLIGHT = 20
DELIVERED = 21
DELIVERED_BYTES = 22
INJECTED_BYTES = 23
FAULT_ROW = 24
FAULT_OP = 25
FREE_NOTES = 27
TRACED = 28
NUMBERS = 32

# -- places of `setting`, after those of programs

MTU = 3
HEADER = 4
CREDIT_BYTES = 5
BUFFER_CREDITS = 6
LANES = 7
SPEEDUP = 8
VOQ = 9
WORDS = 10
CONTROL = 11
MAX_TIME = 14
WEIGHTED = 15
HIGH_LIMIT = 16
POLICY = 17
SEED = 18
ROUTE_KIND = 19
LANE_KIND = 20
REORDERS = 21
SHIFT = 22
FULL_CREDITS = 23
TURN_BYTES = 24
#: Whether packets may go by intermediates, and whether a policy watches what links send.
ROUND = 25
WATCHES = 26
#: Whether there is congestion control.
CONGESTION = 31
SETTINGS = 32
