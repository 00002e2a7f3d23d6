//! max: conversations, refusals and limits, as its sheet describes them.
