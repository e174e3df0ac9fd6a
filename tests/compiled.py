from handwritten import HandwrittenMixpanel
class Hand:
    def __call__(self, options): return HandwrittenMixpanel()
