"""Mail between the parts of a fabric, each of which a thread of its own simulates.

A part handles the events of its rows and of the hosts at them. What it does to other parts are
letters: packets on their way to a row of another part, and credits for a link that begins there.
Parts meet after windows of time so short that no letter can change what its receiver has
simulated; docs/packet-level.md has the rules. Each part has two boxes for its letters, which it
fills in turn: one is emptied by the receivers while it fills the other.

`net` is the `weft.kernels.packet.net.Net` of a part; times are int64 ps.
"""

import numpy as np

from weft.kernels.lean import part_njit
from weft.kernels.packet.calendar import give_slot, push, take_slot
from weft.kernels.packet.lanes import send_back
from weft.kernels.packet.records import NEVER
from weft.kernels.prefetch import prefetch
from weft.kernels.teams import meet

#: `PACKET.lane` of a letter with credits: `PACKET.wire_bytes` is their number, `out_lane` the lane.
CREDITS = -5
#: First entry of a part in `Mailboxes.told` that is the head of a list of letters, one a receiver.
HEADS = 4
#: Free slots and credit returns that a part needs to take a letter.
ROOM = 4
#: Letters for which memory is requested ahead.
AHEAD = 8


@part_njit()
def _letter(net):
    """Return the index of the next letter of the present box."""
    count, rules = net.count, net.rules
    count.mailed += 1
    return (count.box * rules.parts + count.part) * rules.box_size + count.mailed - 1


@part_njit()
def _post(net, index, row, time):
    """Put a letter, which has effect from a time on, into the list for the part of a row."""
    count, rules, mail = net.count, net.rules, net.mail
    count.mail_ps = min(count.mail_ps, time)
    # An answer can arrive so soon.
    count.horizon_ps = min(count.horizon_ps, time + rules.lookahead_ps)
    letter = mail.letters[index]
    letter.time_ps = time
    told, to = mail.told[count.box * rules.parts + count.part], HEADS + mail.row_part[row]
    letter.next = told[to]
    told[to] = index


@part_njit()
def send_on(net, slot, time):
    """Let a packet arrive at the row at the end of its link at a time."""
    packet = net.calendar.packets[slot]
    link = net.topology.links[packet.link]
    if not link.crosses:
        push(net.calendar, slot, np.int64(packet.link), time)
        return
    index = _letter(net)
    net.mail.letters[index] = packet
    _post(net, index, link.head_row, time)
    give_slot(net.calendar, slot)


@part_njit()
def return_credits(net, link, lane, count, time, now):
    """Send back credits of a lane to the row at the begin of a link, to arrive at a time."""
    into = net.topology.links[link]
    if not into.crosses:
        send_back(net, link, lane, count, time, now)
        return
    index = _letter(net)
    letter = net.mail.letters[index]
    letter.link = link
    letter.out_lane = lane
    letter.wire_bytes = count
    letter.lane = CREDITS
    _post(net, index, into.tail_row, time)


@part_njit()
def take_mail(net):
    """Take the letters in the boxes that all have filled; return False if there is no room."""
    count, rules, mail, calendar = net.count, net.rules, net.mail, net.calendar
    for sender in range(rules.parts):
        told, at = mail.told[(count.box ^ 1) * rules.parts + sender], HEADS + count.part
        index = told[at]
        while index >= 0:
            if calendar.state.free < ROOM or net.credits.state.free < ROOM:
                told[at] = index
                return False
            prefetch(mail.letters, index - AHEAD)
            letter = mail.letters[index]
            time = letter.time_ps
            if letter.lane == CREDITS:
                send_back(
                    net, np.int64(letter.link), np.int64(letter.out_lane),
                    np.int64(letter.wire_bytes), time, count.now_ps,
                )  # fmt: skip
            else:
                slot = take_slot(calendar)
                calendar.packets[slot] = letter
                push(calendar, slot, np.int64(letter.link), time)
            index = np.int64(letter.next)
        told[at] = -1
    return True


@part_njit()
def agree(net, upcoming, why):
    """Meet the other parts and agree on the next window.

    `upcoming`: time of the next event of this part. `why`: 0, or a reason to stop.

    Returns the earliest time of an event of any part; -1 if a part has a reason to stop: nothing
    has changed then, and the parts meet once more before they go on. Sets `COUNT.horizon_ps` to the
    time before which this part may handle events.
    """
    count, rules, told = net.count, net.rules, net.mail.told
    base = count.box * rules.parts
    own = told[base + count.part]
    own[0] = upcoming
    own[1] = count.mail_ps
    own[2] = why
    own[3] = count.hops - count.window_hops
    if not meet(net.mail.barrier, rules.parts):
        return np.int64(-1)
    others = np.int64(NEVER)
    most = np.int64(0)
    for part in range(rules.parts):
        other = told[base + part]
        if other[2]:
            return np.int64(-1)
        others = min(others, other[1])
        if part != count.part:
            others = min(others, other[0])
        most = max(most, other[3])
    count.longest_hops += most
    count.window_hops = count.hops
    count.letters += count.mailed
    count.windows += 1
    count.box ^= 1
    count.mailed = 0
    count.mail_ps = NEVER
    told[count.box * rules.parts + count.part, HEADS:] = -1
    count.horizon_ps = others + rules.lookahead_ps
    return min(others, upcoming)
