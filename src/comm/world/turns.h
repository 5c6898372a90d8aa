// How a rank shares a core with other programs.
#pragma once

namespace convoy::comm {

// Asks the scheduler for short turns for this thread, and those that it starts later. A rank that
// others wait for runs for microseconds at a time; where other programs compute, Linux would let
// them end their turns of milliseconds first, in each step of each collective. Who asks for short
// turns goes first and has no more time for it. Nothing happens where the scheduler knows no such
// turns (before Linux 6.12) or may not be asked, to a thread that the user gave a policy, and to
// one whose turns are short already.
void ask_for_short_turns();

}  // namespace convoy::comm
