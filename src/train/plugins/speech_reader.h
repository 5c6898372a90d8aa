// The reader of recorded words, convoy/data/speech.h.
#pragma once

namespace convoy::train {

class Registry;

void add_speech_reader(Registry& registry);

}  // namespace convoy::train
