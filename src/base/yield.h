// How a thread that waits leaves its core to others.
#pragma once

namespace convoy {

// Gives the core to whoever wants it. False if it was away for long, or has been a moment ago: then
// others compute there, and who waits should sleep, not call this again. Linux counts a yield
// beside such a one as a whole turn that was used, and who has used many goes last when it has
// something to do. So this yields no more for a while, whatever the thread waits for by then.
bool yield_briefly();

}  // namespace convoy
